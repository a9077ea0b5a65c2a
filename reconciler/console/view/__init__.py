"""From a snapshot to the content of each page. Pure: no module here knows HTML, a clock or the network."""
