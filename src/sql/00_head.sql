/* numa_migrate--1.0.sql: made by "make" from src/sql/; edit those files */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION numa_migrate" to load this file. \quit

