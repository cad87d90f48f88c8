"""Settings and knowledge, chosen by predicting each label from all others."""
