"""Images: time beside the paper's algorithms as they are written, and what its recipe costs, by measured operations.

    python benchmarks/images.py --data DIR --out docs/results/benchmarks/images.md

Times are medians of turns, so that a busy machine is busy for all. The network of MNIST is the same on both sides. The paper's
network for CIFAR-10 is counted: operations and bytes are those of one update and of one step of sampling. It is trained for a few
updates, to see that the loss of held-out images falls. That a fit which was killed ends with the same weights is tried here on
CIFAR-10, with a small network.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.straightforward import ImageStraightforward
from benchmarks.univariate import ratio, say
from countjump import JumpModel, LinearBeta
from countjump.baselines import DDPM
from countjump.data import load_images

EPOCHS, TRAINED, STEPS = 3600, 50_000, 1000
"""Of the paper's CIFAR-10: epochs, images, and steps of a sample."""

IMAGES = 2048
"""That are trained on: what happens once in a fit is short."""

SUSTAINED = 1e14
"""Operations a second of one GPU, for the projection: a third of an A100's 3.12e14 with bfloat16."""

RATES = {"batch_size": 64, "validation_fraction": 0.0, "random_state": 0, "progress": False, "network": "unet"}
METHODS: dict[str, dict[str, Any]] = {
    "jump": {},
    "jump-paper": {
        "domain": "count",
        "process": "poisson",
        "belief": "poisson",
        "objective": "elbo",
        "decode": "latent",
    },
    "ddpm": {"schedule": "cosine"},
}


def seconds(work: Callable[[], object]) -> float:
    """Of this process: what else the machine does has no part."""
    start = time.process_time()
    work()
    return time.process_time() - start


def model(method: str, x: np.ndarray, lam: float, **settings: Any) -> Any:
    """With the experiment's settings; ``jump-paper`` has the paper's schedule."""
    own = dict(METHODS[method])
    if method == "jump-paper":
        own |= {"lam": lam, "schedule": LinearBeta.solve(lam * float(x.mean()), timesteps=STEPS)}
    return (DDPM if method == "ddpm" else JumpModel)(**(RATES | own | settings))


def update_seconds(method: str, x: np.ndarray, lam: float, updates: int, **settings: Any) -> float:
    """Of one update, the median of at most 20: from one to the next, so that what happens once does not count."""
    times: list[float] = []
    note = [lambda update, losses, model: times.append(time.process_time())]
    model(method, x, lam, max_updates=1 + min(updates, 20), callbacks=note, **settings).fit(x)
    return float(np.median(np.diff(times)))


def speed(x: np.ndarray, lam: float, width: int, updates: int, images: int, repeats: int) -> list[str]:
    """A line for updates and one for samples."""
    say("timing updates")
    naive = ImageStraightforward(x, lam, width, batch=RATES["batch_size"])
    works: list[Callable[[], float]] = [
        lambda: seconds(lambda: [naive.update() for _ in range(updates)]) / updates,
        lambda: update_seconds("jump-paper", x, lam, updates, width=width),
        lambda: update_seconds("jump", x, lam, updates, width=width),
    ]
    naive.update()
    theirs, same, ours = np.median([[work() for work in works] for _ in range(repeats)], axis=0)
    what = f"update of {RATES['batch_size']} images"
    lines = [
        f"| {what}, {whose} | {1000 * theirs:.0f} ms | {1000 * mine:.0f} ms | {ratio(theirs, mine)} |"
        for whose, mine in (("the paper's process", same), ("our defaults", ours))
    ]
    say("timing samples")
    fitted = model("jump", x, lam, max_updates=2, width=width).fit(x)
    few = 10
    theirs, ours = np.median(
        [
            [
                seconds(lambda: naive.sample(images, few)),
                seconds(lambda: fitted.sample(images, steps=20, random_state=0)),
            ]
            for _ in range(repeats)
        ],
        axis=0,
    )
    theirs *= STEPS / few
    lines.append(
        f"| {images} images ({STEPS:,} steps, ours 20) | {theirs:.1f} s (from {few} steps) | {ours:.2f} s | {ratio(theirs, ours)} |"
    )
    return lines


class Held:
    """Bytes of the tensors that a backward pass needs, the weights apart."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}

    def __enter__(self) -> Held:
        self._hooks = saved_tensors_hooks(self._pack, lambda tensor: tensor)
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks.__exit__(*error)

    def _pack(self, tensor: Tensor) -> Tensor:
        if not (tensor.is_leaf and tensor.requires_grad):
            storage = tensor.untyped_storage()
            self.sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    @property
    def bytes(self) -> int:
        return sum(self.sizes.values())


def costs(x: np.ndarray, lam: float, width: int, batch: int, method: str) -> dict[str, float]:
    """Of the paper's network: weights, operations and bytes for an image, images a second."""
    say(f"counting {method} on CIFAR-10")
    operations, held = {}, {}
    for images in (batch, 2 * batch):
        with FlopCounterMode(display=False) as counter, Held() as kept:
            fitted = model(method, x, lam, max_updates=1, width=width, batch_size=images).fit(x)
        operations[images], held[images] = counter.get_total_flops(), kept.bytes
    with FlopCounterMode(display=False) as counter:
        fitted.sample(batch, steps=1, random_state=0)
    chunk = fitted.denoiser_.chunk
    sampled = seconds(lambda: fitted.sample(chunk, steps=2, random_state=0)) / (2 * chunk)
    return {
        "weights": sum(each.numel() for each in fitted.denoiser_.network.parameters()),
        "update": (operations[2 * batch] - operations[batch]) / batch,
        "step": counter.get_total_flops() / (-(-batch // chunk) * chunk),
        "bytes": (held[2 * batch] - held[batch]) / batch,
        "trained": batch / update_seconds(method, x, lam, 2, width=width, batch_size=batch),
        "sampled": 1 / sampled,
    }


def learned(x: np.ndarray, lam: float, width: int, batch: int, updates: int, held_out: int) -> list[str]:
    """A line for each method: the loss of the same held-out images along a short fit, by the weights as they are."""
    lines = ["| | at first | a quarter | half | three quarters | at last |", "|---" * 6 + "|"]
    settings = {"width": width, "batch_size": batch, "max_updates": updates, "validation_fraction": held_out / len(x)}
    settings |= {"ema": 0.0, "lr_schedule": "constant", "learning_rate": 2e-4}
    for method in METHODS:
        say(f"training {method} on CIFAR-10")
        losses = [record["validation_loss"] for record in model(method, x, lam, **settings).fit(x).history_]
        some = np.linspace(0, len(losses) - 1, 5).round().astype(int)
        lines.append(f"| {method} | {' | '.join(f'{losses[place]:.4g}' for place in some)} |")
    return lines


def projection(counted: dict[str, dict[str, float]]) -> list[str]:
    """A column for each method: what was counted, and what the paper's recipe takes of a GPU."""
    hours = SUSTAINED * 3600
    rows: dict[str, Callable[[dict[str, float]], str]] = {
        "weights": lambda cost: f"{cost['weights'] / 1e6:.1f} M",
        "operations of an update, for each image": lambda cost: f"{cost['update'] / 1e9:.1f} G",
        "operations of a step of sampling, for each image": lambda cost: f"{cost['step'] / 1e9:.1f} G",
        "memory of an update, for each image": lambda cost: f"{cost['bytes'] / 2**20:.0f} MiB",
        "images a second of training, here": lambda cost: f"{cost['trained']:.2f}",
        "images a second of sampling in 20 steps, here": lambda cost: f"{cost['sampled'] / 20:.3f}",
        f"GPU-hours of {EPOCHS:,} epochs": lambda cost: f"{cost['update'] * TRAINED * EPOCHS / hours:,.3g}",
        f"GPU-hours of {TRAINED:,} samples in 20 steps": lambda cost: f"{cost['step'] * TRAINED * 20 / hours:.2g}",
        f"GPU-hours of {TRAINED:,} samples in {STEPS:,} steps": lambda cost: (
            f"{cost['step'] * TRAINED * STEPS / hours:.3g}"
        ),
    }
    lines = [f"| | {' | '.join(counted)} |", "|---" * (1 + len(counted)) + "|"]
    return lines + [
        f"| {name} | {' | '.join(say_it(cost) for cost in counted.values())} |" for name, say_it in rows.items()
    ]


KILLED = """
import sys
sys.path[:0] = sys.argv[1:3]
import torch
torch.set_num_threads(1)
from pathlib import Path
from benchmarks.images import model
from countjump.data import load_images
x = load_images("cifar10", sys.argv[3]).x[:64]
out = Path(sys.argv[4])
model("jump", x, 1.0, max_updates=int(sys.argv[5]), width=16, batch_size=8,
      checkpoint_dir=out, checkpoint_every=1).fit(x).save(out / "model")
"""


def killed_and_resumed(data: str, updates: int = 6) -> bool:
    """Whether a fit that was killed by SIGKILL ends with the weights of one that was not."""
    say("killing a fit")
    root = str(Path(__file__).resolve().parents[1])
    with tempfile.TemporaryDirectory() as scratch:
        whole, killed = Path(scratch) / "whole", Path(scratch) / "killed"
        for out in (whole, killed):
            command = [sys.executable, "-c", KILLED, root, str(Path(root) / "benchmarks"), data, str(out), str(updates)]
            if out == killed:
                process = subprocess.Popen(command)
                while not (out / "checkpoint.safetensors").exists():
                    if process.poll() is not None:
                        sys.exit("the fit ended before it was killed")
                    time.sleep(0.01)
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                if (out / "model").exists():
                    sys.exit("the fit ended before it was killed")
            subprocess.run(command, check=True)
        one, other = (JumpModel.load(out / "model").denoiser_.state_dict() for out in (whole, killed))
    return all(torch.equal(one[name], other[name]) for name in one)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="directory of MNIST and CIFAR-10")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--width", type=int, default=32, help="of the network of MNIST")
    parser.add_argument("--cifar-width", type=int, default=128, help="of that of CIFAR-10: the paper's is 128")
    parser.add_argument("--batch", type=int, default=4, help="images of which costs are counted, and twice as many")
    parser.add_argument("--updates", type=int, default=5, help="of a timing")
    parser.add_argument("--cifar-batch", type=int, default=8, help="images of an update of the short fits")
    parser.add_argument("--cifar-updates", type=int, default=60, help="of a short fit, to see the loss fall")
    parser.add_argument("--held-out", type=int, default=32, help="images of which that loss is")
    parser.add_argument("--images", type=int, default=64, help="that are sampled")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    shown = ("width", "cifar_width", "batch", "updates", "cifar_batch", "cifar_updates", "held_out")
    shown += ("images", "repeats", "threads")
    words = " ".join(f"--{name.replace('_', '-')} {getattr(options, name)}" for name in shown)
    mnist, cifar = (load_images(name, options.data).x[:IMAGES] for name in ("mnist", "cifar10"))
    timed = speed(mnist, 1.0, options.width, options.updates, options.images, options.repeats)
    counted = {method: costs(cifar, 1024.0, options.cifar_width, options.batch, method) for method in METHODS}
    losses = learned(cifar, 1024.0, options.cifar_width, options.cifar_batch, options.cifar_updates, options.held_out)
    equal = killed_and_resumed(options.data)
    text = f"""# Images: time and cost

`python benchmarks/images.py --data DIR {words}`

**MNIST**, the same U-Net of width {options.width}: the paper's algorithms as they are written (`benchmarks/straightforward.py`),
and countjump. Seconds are of the process, median of {options.repeats}.

| | straightforward | countjump | ratio |
|---|---|---|---|
{chr(10).join(timed)}

**CIFAR-10 by the paper's recipe**, a U-Net of width {options.cifar_width}:

{chr(10).join(projection(counted))}

Operations are those of convolutions and matrix products, two for a multiplication and an addition. Memory is what a backward pass
needs besides the weights. "Here" is one process of threads: {options.threads}. GPU-hours are at {SUSTAINED:.0e} operations a
second, a third of what an A100 does at most with bfloat16: they are a projection, nothing was run on a GPU.

**A short fit** of the same network, {options.cifar_updates} updates of {options.cifar_batch} images: the mean loss of
the same {options.held_out} held-out images at the same times, by the weights as they are, from the first twentieth of the
updates on. Losses of different methods have different units.

{chr(10).join(losses)}

A fit of CIFAR-10 that was killed (SIGKILL) and resumed ends with the same weights, bit for bit: {"yes" if equal else "NO"}.
"""
    print(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")
    if not equal:
        sys.exit(1)


if __name__ == "__main__":
    main()
