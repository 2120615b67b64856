"""Measurements on other machines: Dask carries them there; a driver's ledger takes the first evidence of each.

``worker`` is the side where programs run, ``cluster`` the driver's, ``members`` the processes that a driver starts.
"""
