"""Small datasets drawn from seeds: for the conformance suite, for `make regress`, for whoever needs files of a format."""
