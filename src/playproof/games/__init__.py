"""Games that come with the product; each reaches the stages through its Game record."""
