"""How often experiments end wrongly, how often and how soon they find a difference: simulated by the thousand."""
