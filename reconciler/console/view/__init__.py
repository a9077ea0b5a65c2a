"""From a snapshot to what each page shows. Pure: no module here knows HTML, a clock or the network."""
