"""Programs that show what a broker and the pipeline are for."""
