import { Migration } from '@mikro-orm/migrations';

/** Customers, invoices and invoice lines of the record shop. */
export class CreateRecordShop extends Migration {
  override up(): void {
    this.addSql(`
      create table customers (
        id int not null,
        first_name text not null,
        last_name text not null,
        company text null,
        address text null,
        city text null,
        state text null,
        country text null,
        postal_code text null,
        phone text null,
        fax text null,
        email text null,
        support_rep_id int not null,
        representative text not null,
        last_invoice_at timestamptz null,
        anonymised_at timestamptz null,
        primary key (id)
      )`);
    this.addSql(`
      create index customers_to_anonymise_idx
      on customers (representative, last_invoice_at) where anonymised_at is null`);

    this.addSql(`
      create table invoices (
        id int not null,
        customer_id int not null,
        invoice_date timestamptz not null,
        billing_address text null,
        billing_city text null,
        billing_state text null,
        billing_country text null,
        billing_postal_code text null,
        total numeric(10,2) not null,
        representative text not null,
        primary key (id),
        constraint invoices_customer_id_foreign
          foreign key (customer_id) references customers (id) on update no action on delete no action
      )`);
    this.addSql(`create index invoices_customer_idx on invoices (customer_id)`);
    this.addSql(`create index invoices_representative_date_idx on invoices (representative, invoice_date)`);

    this.addSql(`
      create table invoice_lines (
        id int not null,
        invoice_id int not null,
        track_id int not null,
        unit_price numeric(10,2) not null,
        quantity int not null,
        invoice_date timestamptz not null,
        representative text not null,
        primary key (id),
        constraint invoice_lines_invoice_id_foreign
          foreign key (invoice_id) references invoices (id) on update no action on delete no action
      )`);
    this.addSql(`create index invoice_lines_invoice_idx on invoice_lines (invoice_id)`);
    this.addSql(`create index invoice_lines_representative_date_idx on invoice_lines (representative, invoice_date)`);
  }

  override down(): void {
    this.addSql('drop table invoice_lines, invoices, customers');
  }
}
