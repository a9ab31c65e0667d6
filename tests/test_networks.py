import torch

from countjump.networks import MLP


def network(inputs: int = 3) -> MLP:
    torch.manual_seed(0)
    made = MLP(inputs, 2, width=16)
    torch.nn.init.normal_(made.output.weight)
    return made


def test_a_time_is_embedded_once_however_many_rows_have_it():
    some, calls = network(), []
    features, t = torch.randn(6, 3), torch.tensor([0.1, 0.8, 0.1, 0.8, 0.8, 0.1])
    some.embedding.layers.register_forward_hook(lambda module, inputs, output: calls.append(len(output)))
    together = some(features, t)
    assert calls == [2]
    apart = torch.cat([some(features[i : i + 1], t[i : i + 1]) for i in range(6)])
    torch.testing.assert_close(together, apart)


def test_one_time_for_all_rows_is_that_time_for_each():
    some, features = network(), torch.randn(6, 3)
    torch.testing.assert_close(some(features, torch.tensor([0.3])), some(features, torch.full((6,), 0.3)))
    assert (some(features, torch.tensor([0.3])) != some(features, torch.tensor([0.4]))).any()


def test_every_block_has_a_projection_of_its_own():
    some, seen = network(), []
    for block in some.blocks:
        block.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[1]))
    t = torch.tensor([0.1, 0.8, 0.1, 0.8])
    some(torch.randn(4, 3), t)
    embedding, index = some.embedding(t)
    projected = some.time(torch.nn.functional.leaky_relu(embedding, 0.01))[index]
    torch.testing.assert_close(torch.cat(seen, 1), projected)
    assert projected.shape == (4, 3 * 16)


def test_a_condition_is_added_to_the_time_embedding():
    some, features = network(), torch.randn(4, 3)
    none, other = torch.zeros(4, 16), torch.randn(4, 16)
    for t in (torch.tensor([0.1, 0.8, 0.1, 0.8]), torch.tensor([0.3])):
        torch.testing.assert_close(some(features, t, none), some(features, t))
        given = some(features, t, other)
        assert not torch.allclose(given, some(features, t))
        apart = [some(features[i : i + 1], t[i : i + 1] if len(t) > 1 else t, other[i : i + 1]) for i in range(4)]
        torch.testing.assert_close(given, torch.cat(apart))


def test_the_sparse_first_layer_is_the_dense_one():
    torch.manual_seed(0)
    sparse = MLP(50, 2, width=16, sparse=True)
    torch.nn.init.normal_(sparse.output.weight)
    dense = MLP(50, 2, width=16)
    dense.load_state_dict(sparse.state_dict())
    features = torch.randn(8, 50) * (torch.rand(8, 50) < 0.1)
    features[3] = 0
    t = torch.tensor([0.5])
    for each in (sparse, dense):
        each(features, t).square().sum().backward()
    torch.testing.assert_close(sparse(features, t), dense(features, t))
    torch.testing.assert_close(sparse.input.weight.grad, dense.input.weight.grad)


def test_three_blocks_of_two_layers_and_a_time_projection():
    some = network()
    assert len(some.blocks) == 3
    for block in some.blocks:
        kinds = sorted(type(module).__name__ for module in block.children())
        assert kinds == ["LayerNorm", "Linear", "Linear"]
    assert some.time.weight.shape == (3 * 16, 16)
