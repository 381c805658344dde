"""The rows of `benchmarks.stall`: what a broker does while a small client asks, a module for each subject."""
