"""Put models to work: experiments between versions, and bots behind a gate."""
