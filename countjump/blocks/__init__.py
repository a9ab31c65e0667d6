"""Blocks: groups of columns of one kind. A block is its columns' domain, how their data becomes counts, what the network sees of
these, and what its output means.

======================  ============================================  ======================================================
block                   data                                          belief
======================  ============================================  ======================================================
:class:`PoissonBlock`   any non-negative                              the paper's: Poisson(λ (1 − α) f(z, t))
:class:`Counts`         counts, bounded counts, binary                atoms, K negative binomials, K binomials
:class:`Reals`          non-negative reals                            about x_0: atoms and K Gammas
:class:`Units`          one-hot, simplex, bounded reals               about x_0: atoms at the vertices and K Dirichlets
:class:`Categories`     unordered levels, groups of 0/1 columns       a categorical law over the levels
:class:`Images`         pictures: levels 0 … b                         what is missing: at most b − z_t of each pixel
:class:`SparseCounts`   wide sparse counts                            total × composition
:class:`SparseReals`    wide sparse reals                             a set of columns, and the amounts there
:class:`Constant`       columns that never change                     what they are
======================  ============================================  ======================================================
"""

from countjump.blocks.base import Belief, Block, Blocks
from countjump.blocks.categories import Categories
from countjump.blocks.constant import Constant
from countjump.blocks.counts import Counts
from countjump.blocks.images import Images
from countjump.blocks.poisson import PoissonBlock
from countjump.blocks.reals import Reals
from countjump.blocks.sparse_counts import SparseCounts
from countjump.blocks.sparse_reals import SparseReals
from countjump.blocks.units import Units

BLOCKS: dict[str, type[Block]] = {
    "poisson": PoissonBlock,
    "counts": Counts,
    "reals": Reals,
    "units": Units,
    "categories": Categories,
    "sparse-counts": SparseCounts,
    "sparse-reals": SparseReals,
    "images": Images,
    "constant": Constant,
}
"""By the name that a plan gives them; a block is built from plain values and tensors alone."""

__all__ = [
    "BLOCKS",
    "Belief",
    "Block",
    "Blocks",
    "Categories",
    "Constant",
    "Counts",
    "Images",
    "PoissonBlock",
    "Reals",
    "SparseCounts",
    "SparseReals",
    "Units",
]
