"""What people see of an answer: pages, tables, charts and maps, made on the server."""
