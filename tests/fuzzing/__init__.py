"""Coverage-guided fuzzing (atheris) of everything that reads bytes which others made: `make fuzz`.

A target is a function of bytes that returns, or raises an error that its reader promises; anything else is a fault.
`corpus/NAME` keeps inputs that reach new code; what found a fault is kept there too, once the fault is mended.
`tests/unit/test_fuzz_targets.py` plays them all, and short made-up inputs, in `make test`.
"""
