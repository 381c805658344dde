"""Programs that developers run by hand; no test and no broker needs them."""
