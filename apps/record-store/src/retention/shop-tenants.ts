import { EntityManager } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { RetentionTenantSource, TenantContext } from 'nestjs-cohort';
import { Customer } from '../customers/customer.js';

/** Every representative with customers; invoices and lines are always those of a customer. */
@Injectable()
export class ShopTenants extends RetentionTenantSource {
  constructor(private readonly em: EntityManager) {
    super();
  }

  override async tenants(): Promise<TenantContext[]> {
    const representatives = await this.em
      .fork()
      .createQueryBuilder(Customer)
      .select('representative', true)
      .orderBy({ representative: 'asc' })
      .execute<{ representative: string }[]>();
    return representatives.map(({ representative }) => new TenantContext(representative));
  }
}
