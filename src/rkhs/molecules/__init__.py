"""Force fields: energies and forces of molecules and crystals."""
