"""Better estimates from what is published: post-processing, which costs no privacy."""
