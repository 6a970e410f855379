"""Validate a baseline in the published game, where no policy has an edge."""

import playproof

examination = playproof.validate_policy("hold-40", world="published", rounds=200)
print(examination.verdict.name)
print(examination.verdict.sentence)
for gate in examination.verdict.gates:
    print(f"{gate.gate:10} {gate.status:8} {gate.finding[:60]}")
