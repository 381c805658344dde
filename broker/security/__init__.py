"""Authorization and authentication: there is no authorizer yet, and SCRAM credentials are only stored."""
