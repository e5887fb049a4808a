"""Long campaigns that `make torture` runs; `make test` runs samples of them."""
