"""One profile for every property test: repeatable, and patient with the first compilation."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fedbandits",
    derandomize=True,  # the same examples in every run: a failure is never a matter of luck
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fedbandits")
