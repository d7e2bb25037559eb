"""Class totals and Gram matrices of batches of rows."""
