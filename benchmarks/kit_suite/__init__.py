"""A suite as users write it, for `benchmarks.kit`: 150 integration tests of a small service on aiokafka."""
