"""The market of the arena: rules, exchange, accounts, news and worlds."""
