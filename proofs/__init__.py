"""The ledger of proofs: one statement a file, installed as ``tpcalc.proofs``; read by ``tpcalc.ledger``."""
