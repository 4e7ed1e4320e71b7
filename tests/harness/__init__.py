"""The machinery behind tests/run: one module a kind of test, each yielding jobs whose results are counted alike."""
