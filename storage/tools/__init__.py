"""Looking at logs while no broker runs, and making damaged ones whole."""
