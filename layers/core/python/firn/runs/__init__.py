"""Runs of jobs on EMR Serverless."""
