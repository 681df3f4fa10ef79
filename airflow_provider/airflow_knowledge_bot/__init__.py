"""The Apache Airflow provider of the Knowledge-Bot Service."""
