"""Who may post and who may read: senders, readers, signatures and their secrets."""
