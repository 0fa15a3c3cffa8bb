"""What Tocsin would have said of a site's history, beside what the site knew."""
