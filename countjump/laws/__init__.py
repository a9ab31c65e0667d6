"""Laws of rows, each of which is sampled and scored as one thing, and the scalar families that they are made of.

==================  ==========================================================================================================
scalar families     ``scalar``: :class:`Zero`, :class:`Poisson`, :class:`Binomial`, :class:`NegativeBinomial`, :class:`Gamma`,
                    :class:`Known`; ``mixture``: :class:`Mixture`
laws of rows        ``base``: :class:`Product`, :class:`Shifted`, :class:`Indexed`; ``joint``: :class:`JointLaw`
total × shares      ``composition``: :class:`Multinomial`, :class:`DirichletMixture`, :class:`TotalTimesComposition`
wide sparse rows    ``sparse``: :class:`ThinnedRows`, :class:`TotalComposition`, :class:`SparseSet`, :class:`Amounts`
==================  ==========================================================================================================
"""

from countjump.laws.base import CountFamily, CountLaw, Family, Indexed, Law, Product, Shifted, Streams
from countjump.laws.composition import DirichletMixture, Multinomial, TotalTimesComposition
from countjump.laws.joint import JointLaw
from countjump.laws.mixture import Mixture
from countjump.laws.scalar import MAX_COUNT, Binomial, Gamma, Known, NegativeBinomial, Poisson, Zero

__all__ = [
    "MAX_COUNT",
    "Binomial",
    "CountFamily",
    "CountLaw",
    "DirichletMixture",
    "Family",
    "Gamma",
    "Indexed",
    "JointLaw",
    "Known",
    "Law",
    "Mixture",
    "Multinomial",
    "NegativeBinomial",
    "Poisson",
    "Product",
    "Shifted",
    "Streams",
    "TotalTimesComposition",
    "Zero",
]
