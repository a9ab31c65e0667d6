"""Laws of rows, each of which is sampled and scored as one thing, and the scalar families that they are made of."""

from countjump.laws.alternatives import Alternatives
from countjump.laws.base import CountFamily, CountLaw, Family, Indexed, JointLaw, Law, Product, Shifted, Streams
from countjump.laws.composition import DirichletMixture, Multinomial, TotalTimesComposition
from countjump.laws.logistic import DiscretisedLogistic, Thinned
from countjump.laws.scalar import MAX_COUNT, Binomial, Gamma, Known, Mixture, NegativeBinomial, Poisson, Zero

__all__ = [
    "MAX_COUNT",
    "Alternatives",
    "Binomial",
    "CountFamily",
    "CountLaw",
    "DirichletMixture",
    "DiscretisedLogistic",
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
    "Thinned",
    "TotalTimesComposition",
    "Zero",
]
