"""Planning: what a model is made of. :func:`make_plan` looks at the data once and returns a :class:`Plan` of plain values, every
"auto" resolved with its reason; :func:`build` makes the process and the denoiser from a plan alone, which is also how a saved model
comes back."""

from countjump.planning.decisions import WIDE, one_of
from countjump.planning.groups import Names
from countjump.planning.images import plan_images
from countjump.planning.parts import PLANNERS, Part
from countjump.planning.plan import Plan, build, make_plan

__all__ = ["PLANNERS", "WIDE", "Names", "Part", "Plan", "build", "make_plan", "one_of", "plan_images"]
