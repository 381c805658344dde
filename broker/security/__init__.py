"""Authorization and authentication: no authorizer yet, and SCRAM credentials that are kept."""
