"""What is delivered: the packages that come with eree, their licences, and a bill of materials."""
