-- A bank and its shop. pgbench has made its own four tables (empty); :accounts says how many accounts there are.
INSERT INTO pgbench_branches (bid, bbalance) VALUES (1, 0);
INSERT INTO pgbench_tellers (tid, bid, tbalance) SELECT n, 1, 0 FROM generate_series(1, 10) n;
INSERT INTO pgbench_accounts (aid, bid, abalance, filler) SELECT n, 1, 0, '' FROM generate_series(1, :accounts) n;

CREATE TABLE orders (
  order_id bigserial PRIMARY KEY,
  aid int NOT NULL,
  ref uuid NOT NULL DEFAULT gen_random_uuid(),
  units int NOT NULL,
  amount numeric(8,2) NOT NULL,
  status text NOT NULL DEFAULT 'new',
  note varchar(40) DEFAULT md5(random()::text),
  details jsonb DEFAULT jsonb_build_object('weight', (random() * 100)::int, 'colours', '["red", "grün"]'::jsonb),
  placed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  due date,
  letter text
);
-- Large values out of line, as they are: an update that leaves one alone sends none (unchanged TOAST).
ALTER TABLE orders ALTER COLUMN letter SET STORAGE EXTERNAL;

-- How Debezium is asked to read a table again: https://debezium.io/documentation/reference/configuration/signalling.html
CREATE TABLE debezium_signal (id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048));
