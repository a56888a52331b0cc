-- The example's tables: a shop, one table with each type, one without a key. Statements end with a semicolon and a line break.
CREATE TABLE customers (id int auto_increment PRIMARY KEY, name varchar(120) NOT NULL, vip tinyint(1) NOT NULL DEFAULT 0,
  score int NOT NULL DEFAULT 7, note text, created timestamp(6) NOT NULL DEFAULT current_timestamp(6));
CREATE TABLE orders (id bigint unsigned auto_increment PRIMARY KEY, customer_id int NOT NULL,
  status enum('new','paid','shipped') NOT NULL DEFAULT 'new', amount decimal(12,2), placed datetime(6) NOT NULL);
CREATE TABLE order_items (order_id bigint unsigned, line smallint, sku varchar(40) NOT NULL, price decimal(10,4),
  PRIMARY KEY (order_id, line));
CREATE TABLE types (id int PRIMARY KEY, i1 tinyint, u1 tinyint unsigned, u4 int unsigned, i8 bigint, u8 bigint unsigned,
  d2 decimal(10,2), d30 decimal(65,30), f float, d double, b1 bit(1), b17 bit(17), dy date, t0 time, t6 time(6), dt0 datetime,
  dt6 datetime(6), ts3 timestamp(3) NULL DEFAULT NULL, y year, c char(10), tx text, en enum('a','b','ü'), st set('x','y','z'),
  js json, b16 binary(16), bl blob, nd int DEFAULT 42);
CREATE TABLE history (customer_id int, delta int, at datetime(3));
CREATE TABLE marker (id int PRIMARY KEY, n int NOT NULL);
INSERT INTO customers (name, score) SELECT concat('Kunde ', seq), seq FROM seq_1_to_500;
INSERT INTO orders (customer_id, amount, placed) SELECT 1 + seq % 500, seq * 1.37, '2024-03-10 01:59:59.999999' + INTERVAL seq MINUTE
  FROM seq_1_to_1000;
INSERT INTO order_items SELECT id, 1, concat('SKU-', id), id * 1.2345 FROM orders;
INSERT INTO types (id, u8, t6) VALUES (0, 18446744073709551615, '-838:59:59');
INSERT INTO history VALUES (1, 1, '2024-01-01'), (1, 1, '2024-01-01');
INSERT INTO marker VALUES (1, 0);
