import torch

from countjump.networks import MLP


def test_time_is_computed_once_per_distinct_time_and_gathered():
    torch.manual_seed(0)
    network = MLP(3, 2, width=16)
    nn_init = torch.nn.init.normal_(network.output.weight)
    assert nn_init.std() > 0
    features, times = torch.randn(6, 3), torch.tensor([0.1, 0.8])
    index = torch.tensor([0, 1, 0, 1, 1, 0])
    calls = []
    network.embedding.register_forward_hook(lambda module, inputs, output: calls.append(len(output)))
    together = network(features, times, index)
    assert calls == [2]
    apart = torch.cat(
        [network(features[i : i + 1], times[index[i] : index[i] + 1], torch.zeros(1).long()) for i in range(6)]
    )
    torch.testing.assert_close(together, apart)


def test_every_block_has_a_projection_of_its_own():
    network, seen = MLP(3, 2, width=16), []
    for block in network.blocks:
        block.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[1]))
    times, index = torch.tensor([0.1, 0.8]), torch.tensor([0, 1, 0, 1])
    network(torch.randn(4, 3), times, index)
    projected = network.time(torch.nn.functional.leaky_relu(network.embedding(times), 0.01))[index]
    torch.testing.assert_close(torch.cat(seen, 1), projected)
    assert projected.shape == (4, 3 * 16)


def test_the_sparse_first_layer_is_the_dense_one():
    torch.manual_seed(0)
    sparse = MLP(50, 2, width=16, sparse=True)
    dense = MLP(50, 2, width=16)
    dense.load_state_dict(sparse.state_dict())
    torch.nn.init.normal_(sparse.output.weight)
    dense.output.load_state_dict(sparse.output.state_dict())
    features = torch.randn(8, 50) * (torch.rand(8, 50) < 0.1)
    features[3] = 0
    arguments = (torch.tensor([0.5]), torch.zeros(8, dtype=torch.long))
    for network in (sparse, dense):
        network(features, *arguments).square().sum().backward()
    torch.testing.assert_close(sparse(features, *arguments), dense(features, *arguments))
    torch.testing.assert_close(sparse.input.weight.grad, dense.input.weight.grad)


def test_three_blocks_of_two_layers_and_a_time_projection():
    network = MLP(3, 2, width=16)
    assert len(network.blocks) == 3
    for block in network.blocks:
        kinds = sorted(type(module).__name__ for module in block.children())
        assert kinds == ["LayerNorm", "Linear", "Linear"]
    assert network.time.weight.shape == (3 * 16, 16)
