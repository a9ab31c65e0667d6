import numpy as np
import pytest
import torch

from countjump import JumpModel
from countjump.networks import MLP, LinearPosterior, UNet, UNetSizes
from countjump.states import as_matrix


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


# The U-Net.

SIZES = {
    "paper": UNetSizes(),
    "two blocks, a patch": UNetSizes(multipliers=(1, 2), blocks=2, attention=0, head=4, patch=2, dropout=0.0),
    "one resolution": UNetSizes(multipliers=(1,), blocks=1),
}


def unet(shape: tuple[int, int] = (7, 7), sizes: UNetSizes | None = None) -> UNet:
    torch.manual_seed(0)
    return UNet(2 * shape[0] * shape[1], 3 * shape[0] * shape[1], 8, shape, sizes)


def some_pictures(shape: tuple[int, int], rows: int = 4) -> torch.Tensor:
    return torch.randn(rows, 2 * shape[0] * shape[1], generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("shape", [(7, 7), (8, 8), (5, 12), (1, 1)])
def test_a_unet_takes_pictures_of_any_size(name: str, shape: tuple[int, int]):
    answer = unet(shape, SIZES[name])(some_pictures(shape), torch.rand(4))
    assert answer.shape == (4, 3 * shape[0] * shape[1])
    assert answer.isfinite().all()


@pytest.mark.parametrize("name", SIZES)
def test_gradients_reach_all_of_a_unet(name: str):
    network = unet(sizes=SIZES[name])
    network(some_pictures((7, 7)), torch.rand(4), torch.randn(4, 8)).square().sum().backward()
    for weight, tensor in network.named_parameters():
        assert tensor.grad is not None, weight
        # A bias before a group norm of its own group is taken off again; every matrix must feel its data.
        assert tensor.ndim == 1 or tensor.grad.abs().max() > 0, weight


def test_a_unet_feels_its_time_and_its_condition():
    network, x = unet().eval(), some_pictures((7, 7))
    plain = network(x, torch.tensor([0.3]))
    torch.testing.assert_close(network(x, torch.full((4,), 0.3), torch.zeros(4, 8)), plain)
    assert not torch.allclose(network(x, torch.tensor([0.7])), plain)
    assert not torch.allclose(network(x, torch.tensor([0.3]), torch.ones(4, 8)), plain)


@pytest.mark.parametrize("name", SIZES)
def test_a_picture_does_not_feel_those_beside_it(name: str):
    network, x, t = unet(sizes=SIZES[name]).eval(), some_pictures((7, 7)), torch.tensor([0.1, 0.8, 0.1, 0.5])
    given = torch.randn(4, 8)
    together = network(x, t, given)
    alone = torch.cat([network(x[i : i + 1], t[i : i + 1], given[i : i + 1]) for i in range(4)])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


def test_a_far_pixel_is_seen_through_coarser_resolutions():
    shape = (12, 12)
    for sizes in SIZES.values():
        network, x = unet(shape, sizes).eval(), some_pictures(shape, 1)
        other = x.clone()
        other[:, 0] += 5.0
        change = (network(x, torch.tensor([0.3])) - network(other, torch.tensor([0.3]))).reshape(3, *shape).abs()
        assert change[:, -1, -1].max() > 0


def test_the_papers_unet_has_three_resolutions_of_three_blocks_and_attention_below_the_first():
    network = UNet(32 * 32, 32 * 32, 16, (32, 32))
    assert (network.sizes.multipliers, network.sizes.dropout) == ((1, 1, 1), 0.2)
    assert [len(stages) for stages in network.down] == [3, 3, 3]
    assert [[stage.attention is not None for stage in stages] for stages in network.down] == [
        [False] * 3,
        [True] * 3,
        [True] * 3,
    ]
    seen = []
    for stages in network.down:
        stages[0].register_forward_hook(lambda module, inputs, output: seen.append(output.shape[-2:]))
    network(torch.zeros(1, 32 * 32), torch.zeros(1))
    assert seen == [(32, 32), (16, 16), (8, 8)]


def test_sizes_of_a_unet_are_checked():
    for wrong in ({"multipliers": ()}, {"blocks": 0}, {"dropout": 1.0}, {"patch": 1.5}, {"attention": -1}):
        with pytest.raises(ValueError, match="UNetSizes needs"):
            UNetSizes(**wrong)
    with pytest.raises(ValueError, match="no channels of 7 × 7 pixels"):
        UNet(50, 49, 8, (7, 7))


SEEN = [0, 1, 2, 3, 4, 5, 7]
"""The columns of :func:`whole_rows` that vary."""


def whole_rows(rows: int) -> torch.Tensor:
    """Counts whose rates have a factor in common, a group of which one is 1, a column of zeros, and a large count."""
    rng = np.random.default_rng(0)
    factor = rng.gamma(3, 1 / 3, (rows, 1))
    group = np.eye(3)[rng.choice(3, rows, p=[0.5, 0.3, 0.2])]
    large = rng.poisson(rng.gamma(1.0, 1e6, (rows, 1)))
    parts = [rng.poisson(factor * [2.0, 5.0, 20.0]), group, np.zeros((rows, 1)), large]
    return torch.from_numpy(np.hstack(parts).astype(float))


@pytest.mark.parametrize("alpha", [0.02, 0.3, 0.9])
def test_the_linear_posterior_is_the_regression_of_whole_rows_on_thinned_ones(alpha):
    z_0 = whole_rows(200_000)
    linear = LinearPosterior(z_0.shape[1])
    linear.learn(z_0)
    # A group's unit is kept or lost as a whole: so is every unit of a count.
    z = torch.binomial(z_0, torch.full_like(z_0, alpha), generator=torch.Generator().manual_seed(1))
    guess = linear(linear.view(z, torch.full((len(z), 1), alpha).double())).double().sinh()
    # Least squares on the same rows, in units of each column's deviation; the column that is always zero is left out.
    design = torch.cat([z[:, SEEN] - alpha * z_0[:, SEEN].mean(0), torch.ones(len(z), 1).double()], 1)
    wanted = (z_0[:, SEEN] - z_0[:, SEEN].mean(0)) / z_0[:, SEEN].std(0, correction=0)
    fitted = design @ torch.linalg.lstsq(design, wanted, driver="gelsd").solution
    assert (guess[:, SEEN] - fitted).pow(2).mean().sqrt() < 0.02
    assert (guess[:, 6] == 0).all()


def test_known_counts_say_all_that_a_regression_on_them_says():
    z_0 = whole_rows(200_000)
    linear = LinearPosterior(z_0.shape[1])
    linear.learn(z_0)
    alpha = torch.full((len(z_0), z_0.shape[1]), 0.3).double()
    alpha[:, :2] = 1.0
    z = torch.binomial(z_0, alpha, generator=torch.Generator().manual_seed(1))
    guess = linear(linear.view(z, alpha)).double().sinh()
    centered = z - alpha * z_0.mean(0)
    wanted = (z_0[:, SEEN] - z_0[:, SEEN].mean(0)) / z_0[:, SEEN].std(0, correction=0)
    fitted = centered[:, SEEN] @ torch.linalg.lstsq(centered[:, SEEN], wanted, driver="gelsd").solution
    assert (guess[:, SEEN] - fitted).pow(2).mean().sqrt() < 0.02
    # Nor does a row feel what is known of others.
    alpha[1::2, :2] = 0.3
    mixed = linear(linear.view(z, alpha)).double().sinh()
    assert torch.equal(mixed[::2], guess[::2])
    alone = linear(linear.view(z[1::2], alpha[1::2, :1])).double().sinh()
    torch.testing.assert_close(mixed[1::2], alone, rtol=1e-5, atol=1e-5)


def test_at_the_ends_the_linear_posterior_is_the_mean_and_the_counts_themselves():
    z_0 = whole_rows(500)
    linear = LinearPosterior(z_0.shape[1])
    linear.learn(z_0)
    one, nothing = torch.ones(len(z_0), 1).double(), torch.zeros(len(z_0), 1).double()
    assert linear(linear.view(0 * z_0, nothing)).abs().max() < 1e-5
    scaled = (z_0 - z_0.mean(0)) / z_0.std(0, correction=0).clamp(min=1e-9)
    torch.testing.assert_close(linear(linear.view(z_0, one)).double().sinh(), scaled, atol=1e-3, rtol=1e-3)


def test_tables_have_a_linear_posterior_which_knows_what_is_known(tmp_path):
    z_0 = whole_rows(150).numpy()
    X = np.hstack([z_0[:, :6], z_0[:, 1:2] + 0.5])
    model = JumpModel(max_updates=2, random_state=0, progress=False).fit(X)
    denoiser = model.denoiser_
    assert model.plan_.linear
    assert (denoiser.linear.spread > 0).sum() >= 6
    z, alpha = model.block_.empty(1, "cpu"), torch.full((1, 1), 0.01).double()
    known = torch.zeros(1, model.block_.knowables, dtype=torch.bool)
    nothing, at = denoiser._features(z, alpha, known), denoiser.linear.inputs
    torch.testing.assert_close(nothing, denoiser._features(z, alpha, None))
    whole = model.block_.shown(model.block_.read(X[:1]))
    held = denoiser._features(model.block_.hold(z, whole, ~known), alpha, ~known)[:, -at:]
    # A row that is known whole is seen as a whole row.
    torch.testing.assert_close(held, denoiser.linear.view(as_matrix(whole), torch.ones(1, 1).double()))
    model.save(tmp_path / "model")
    again = JumpModel.load(tmp_path / "model")
    assert np.array_equal(again.sample(5, steps=3, random_state=0), model.sample(5, steps=3, random_state=0))


@pytest.mark.parametrize(
    "options", [{"belief": "poisson"}, {"network": lambda inputs, outputs, width: MLP(inputs, outputs, width)}]
)
def test_the_papers_belief_and_networks_of_ones_own_see_the_features_of_the_blocks_alone(options):
    X = np.random.default_rng(0).poisson(3.0, (50, 3))
    model = JumpModel(max_updates=1, random_state=0, progress=False, **options).fit(X)
    assert not model.plan_.linear
    assert model.denoiser_.linear is None
    assert JumpModel(max_updates=1, random_state=0, progress=False).fit(X[:, :1]).denoiser_.linear is None


@pytest.mark.parametrize(("rows", "levels", "size"), [(400, 10, 240), (400, 11, None), (1200, 10, None)])
def test_many_rows_and_very_many_levels_have_no_linear_posterior(rows, levels, size):
    X = (np.arange(rows)[:, None] + np.arange(24)) % levels
    linear = JumpModel("categorical", random_state=0, progress=False).decide(X).denoiser_.linear
    assert (None if linear is None else linear.size) == size
