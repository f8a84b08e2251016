"""What amberlog has of the modules of KohakuTerrarium, under their names and by their contract."""
