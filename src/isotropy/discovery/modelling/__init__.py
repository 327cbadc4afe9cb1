"""Models of what is confirmed: strict, soft, and beside a free one."""
