"""What could be otherwise: next steps, decisions, iteration spaces, orders and addresses of one group, as documents."""
