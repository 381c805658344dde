"""Hand-written codecs of Produce and Fetch, byte-identical to kio's in every version."""
