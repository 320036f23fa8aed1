SELECT name FROM servers ORDER BY name
