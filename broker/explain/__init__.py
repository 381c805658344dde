"""Why a consumer gets nothing: rules over a view of the node."""
