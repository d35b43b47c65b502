"""Problems and jobs."""
