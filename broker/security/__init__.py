"""Who may do what, and who is who: no authorizer yet, and SCRAM credentials that are kept."""
