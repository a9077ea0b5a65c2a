"""Commands that install the product as a service of this machine, replace its version, and remove it."""
