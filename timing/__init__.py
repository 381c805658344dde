"""Clock, hierarchical timing wheel, purgatory."""
